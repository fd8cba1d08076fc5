// Package kube runs scripts in a Kubernetes cluster: a bare pod for each, without
// rights, network policy permitting without network, gone when the script is.
//
// What runs in the pod is a keeper (package inside) that gets its order in the pod's
// description and writes into the container's log: the one stream that needs no right
// to enter the pod. The verbs on pods that this takes are those of manifests/scripts.yaml, and no others.
package kube
