// Package book keeps tasks in the host's durable state: one record a task, with its
// debts and history, so that each step is one write; the last finished tasks of an
// owner; and the handles owners are acted for by. A record that can't be read is
// put aside, never overwritten.
package book
