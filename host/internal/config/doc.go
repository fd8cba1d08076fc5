// Package config turns the operator's HCL file into typed settings. One walk
// checks a body against its schema, evaluates it and remembers where every
// value stands, for the host's own blocks and for each plugin's config block
// alike; so every fault is reported at its line and column, all at once, and a
// plugin sees only evaluated JSON, never the host's environment. Values that
// are sensitive, by schema or because secret() made them, appear in no
// diagnostic.
package config
