// Package guard checks the arguments of a call before they leave for a server. A
// guard that can't decide refuses.
package guard
