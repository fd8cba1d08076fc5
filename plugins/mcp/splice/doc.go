// Package splice reads and replaces single values inside JSON bytes. All other
// bytes stay as they are: key order, spaces, the digits of numbers.
package splice
