// Package sites reads pages by their sites' interfaces for programs instead of by
// what they show to browsers: cleaner, complete, and without scripts.
//
// A Site recognises addresses and turns one into a Page. An address it does not
// know, or an interface that fails, is no error of the caller's: the page is read
// like any other then.
package sites
