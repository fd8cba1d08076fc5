// Package search asks search engines, each behind the same small interface.
//
// An Engines holds the operator's providers in order of preference. A query goes
// to the first; one that fails hands it on to the next, and only when all have
// failed does the caller see an error, which names each with its reason. Every
// provider has a pace of its own: one request at a time, starts apart by an
// interval, and what a provider asks to wait (429, 503, Retry-After) holds up the
// next caller, too.
package search
