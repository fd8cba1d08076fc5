// Package htmltree parses pages that nobody vouches for. The parser of x/net/html
// repeats formatting elements that were left open in every block after them, so a
// small page can ask for a tree of gigabytes; and what walks a tree for each of its
// nodes takes a time that grows with its depth. Parse refuses both, before or after
// the tree is made, so that whoever gets one can walk it without counting.
package htmltree
