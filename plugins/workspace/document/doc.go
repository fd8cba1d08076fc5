// Package document is a text file as a model reads and edits it: its bytes become
// text and go back as they were (byte order mark, UTF-16, line ends), it is read in
// pages of whole lines, and a piece of it is replaced only when it is clear which.
// It knows no files; package tree does.
package document
