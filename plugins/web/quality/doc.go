// Package quality measures how well the text of pages comes through: the formula
// of the article-extraction benchmark, and intervals by bootstrap. Tests and the
// bench use it; the plugin does not.
package quality
