// Package inside is what runs beside a script in a place that only a command and its
// output reach: a container, a pod. A keeper written in Python starts the script,
// bounds it, and writes what it prints, and at the end its files, as lines of JSON; an
// Ear outside puts a run together out of these.
//
// The keeper gets its order from the environment, where that is all there is, or from
// its standard input; then it ends with that, so that nothing goes on when whoever
// waits for it is gone.
package inside
