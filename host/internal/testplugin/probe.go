//go:build linux

package main

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"time"
)

// probe tries what a plugin might reach and reports what it could do.
func probe(a args) []byte {
	got := map[string]any{"pid": os.Getpid(), "env": os.Environ()}
	try := map[string]string{}
	note := func(what string, err error) {
		try[what] = "ok"
		if err != nil {
			try[what] = err.Error()
		}
	}
	for _, path := range a.Read {
		f, err := os.Open(path)
		if err == nil {
			f.Close()
		}
		note("read "+path, err)
	}
	for _, path := range a.Write {
		note("write "+path, os.WriteFile(path, []byte("x"), 0o600))
	}
	for _, to := range a.Dial {
		network, address, _ := strings.Cut(to, ":")
		conn, err := net.DialTimeout(network, address, 2*time.Second)
		if err == nil {
			conn.Close()
		}
		note("dial "+to, err)
	}
	got["try"] = try
	text, _ := json.Marshal(got)
	return text
}
