// Package tree reaches the files of one folder and nothing else. Every access goes
// through os.Root, so that neither .. nor a link nor a folder swapped while somebody
// looks leads out. What is opened is looked at again once it is open: only regular
// files with one name are read and written; a pipe, a device or a second name of a
// file elsewhere is refused. A change replaces the file whole or not at all.
package tree
