// Package chunk cuts a long text into pieces a model can take in one at a time:
// at headings first, then at blank lines, then anywhere, but never inside a
// character, and inside a code block only when there is no other way. All of
// the text comes back; lengths are counted in characters.
package chunk
