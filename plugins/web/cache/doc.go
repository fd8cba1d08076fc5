// Package cache keeps responses of public pages in a folder, after RFC 9111 and
// with less than it allows. A Transport answers a GET from a copy while the server
// said it is good, asks the server with the copy's validators after that, and
// never shows a copy that is neither: nothing is guessed, and no stale copy hides
// that a server is gone.
//
// A copy belongs to the address and to all headers of its request, so no Vary can
// be missed, and to a scope, by which what was once allowed to be opened is not
// read after it no longer is. Requests with credentials, responses that are
// private or set to not be stored, and everything but a complete 200 are left
// alone. The folder is bounded in bytes and entries; what lies in it is read with
// its checksum, and what fails that is removed as if it had never been there.
package cache
