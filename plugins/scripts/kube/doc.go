// Package kube runs scripts in a Kubernetes cluster: a bare pod for each, without
// rights, network policy permitting without network, gone when the script is.
//
// What runs in the pod is a keeper written in Python: it starts the script, bounds it,
// and writes what it prints, and at the end its files, as lines of JSON into the
// container's log, which is the one stream that needs no right to enter the pod. The
// verbs on pods that this takes are those of manifests/scripts.yaml, and no others.
package kube
