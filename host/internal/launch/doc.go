// Package launch runs one process of one plugin: from the check of its binary
// over the sandboxed start and the handshake to its end.
//
// go-plugin built the ordinary way lets a plugin kill or hang its host: by a line
// of JSON on stderr, by a handshake without a server behind it, by a stopped
// process, by a grandchild that keeps a pipe open. So this package brings its own
// runner: stdin is empty, of stdout only the handshake line is read, stderr goes
// to a bounded log of our own, addresses are checked, one deadline covers the
// whole start, and every end is a kill of the process's whole tree.
package launch
