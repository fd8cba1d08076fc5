// Package inline is an http.RoundTripper for the many small requests that a bridge
// makes to servers on the same machine. net/http's own transport has two goroutines
// beside each connection; a request wakes both, and what a bridged call costs is
// mostly waking up. Here the goroutine that asks writes the request and reads the
// answer itself.
//
// It takes what it can do as well as the other: a small POST over plain HTTP/1.1
// without a proxy. Whatever else comes goes to the http.Transport it was made with:
// TLS, HTTP/2, large bodies, long streams that begin with a GET. Limits and time-outs
// are those of that transport.
//
// A request is written to a connection that lay idle only when the server has
// neither closed it nor sent anything on it, and it is sent once more, over a new
// connection, only when not one byte of it was taken: a request is never run twice
// for the sake of a broken connection.
package inline
