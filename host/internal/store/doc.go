// Package store keeps what must survive the host: plugin state, handles,
// sessions, inboxes, frozen calls with their questions, and the audit trail, in
// one SQLite file. Every method has a deadline of its own, every change is one
// transaction, and what is private (arguments, answers, secrets) is sealed with
// keys derived from a host key file. A file that can't be read is set aside,
// never overwritten; a disk that can't be written gives fault.StoreFull.
package store
