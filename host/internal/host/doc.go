// Package host puts the parts together into one running host and takes them down
// again in order: the store first and last, doors last and first.
package host
