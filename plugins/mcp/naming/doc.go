// Package naming makes the names agents see from the names servers use.
//
// A tool is {server}__{tool}. What a name may not hold becomes -, and a name that
// lost something so, or is too long, or would clash with another of its server,
// gets a hash of the original at its end. So a name depends on its server and
// tool alone, never on what else is configured. Names are never parsed: who made
// one keeps what it stands for.
package naming
