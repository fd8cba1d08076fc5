// Package hide takes secrets that are known out of texts that quote a server: a
// server may repeat what it was given, in an error, a log line or its last words.
package hide
