// Package fire delivers what is due: a prompt or a report into the inbox of the
// session patrol/{task}, a tool call under the owner's rights, or a signed webhook.
// A delivery that has a result, good or bad, gives a run to be noted; one that was
// cut short gives none, and is begun again under the same id.
package fire
