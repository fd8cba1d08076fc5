//go:build linux

package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// misstart is what happens instead of an honest handshake.
func misstart(mode string) {
	dir := os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
	shake := func(format string, a ...any) { fmt.Printf(format+"|grpc|"+certificate()+"\n", a...) }
	switch mode {
	case "garbage":
		fmt.Println("hello, I am a plugin")
	case "longline":
		os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<20))
	case "endless":
		for {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte("x"), 64<<10)); err != nil {
				os.Exit(1)
			}
		}
	case "partial":
		fmt.Print("1|1|unix|")
	case "silence":
	case "exit0":
		os.Exit(0)
	case "exit3":
		fmt.Fprintln(os.Stderr, "can't read my settings")
		os.Exit(3)
	case "panic":
		panic("no way to start")
	case "nosocket":
		shake("1|1|unix|%s", filepath.Join(dir, "nothing"))
	case "tcp":
		shake("1|1|tcp|10.0.0.1:80")
	case "foreign":
		shake("1|1|unix|/run/docker.sock")
	case "newer":
		shake("1|2|unix|%s", filepath.Join(dir, "x"))
	case "older":
		shake("1|0|unix|%s", filepath.Join(dir, "x"))
	case "nocert":
		fmt.Printf("1|1|unix|%s|grpc|\n", filepath.Join(dir, "x"))
	case "neverserve":
		path := filepath.Join(dir, "deaf")
		ln, err := net.Listen("unix", path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(4)
		}
		go func() {
			for {
				if _, err := ln.Accept(); err != nil {
					return
				}
			}
		}()
		shake("1|1|unix|%s", path)
	case "stderrjson":
		fmt.Fprintln(os.Stderr, `{"@message": 1, "@level": 7}`)
		return // and go on as an honest one
	case "untie":
		if err := untie(); err != nil {
			fmt.Fprintln(os.Stderr, "untie:", err)
		} else {
			fmt.Fprintln(os.Stderr, "untied")
		}
		return
	default:
		return
	}
	time.Sleep(time.Hour)
	os.Exit(0)
}

func certificate() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return base64.RawStdEncoding.EncodeToString(der)
}
