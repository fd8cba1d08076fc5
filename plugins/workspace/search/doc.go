// Package search looks for lines in the files of a folder, the way ripgrep does:
// several files at a time, leaving out what ignore files name, what is hidden and
// what is no text. It never follows a link, opens each file from its open folder, and
// holds no more than a window of each file it is at; so it can't be led out of the
// folder, nor made to eat memory, by what is in it.
package search
