// Package container runs scripts in containers of a Docker or Podman engine, reached by
// the socket of its API: one container for each run, without network, rights or a
// writable file system, bounded by the engine's cgroups, and removed when it ends.
//
// What runs in it is a keeper (package inside), which hears its order on the stream that
// the container is attached to. When that stream ends, because this process did, the
// keeper ends, and the engine removes the container; what an engine kept all the same,
// the next start removes.
package container
