package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// rawArg starts this program as the plain gRPC server of the comparison.
const rawArg = "__raw"

// echo answers a unary call with the bytes it got.
type echo struct {
	pluginv1.UnimplementedPluginServiceServer
}

func (echo) Validate(_ context.Context, r *pluginv1.ValidateRequest) (*pluginv1.ValidateResponse, error) {
	return &pluginv1.ValidateResponse{Diagnostics: []*pluginv1.Diagnostic{{Detail: string(r.ConfigJson)}}}, nil
}

// rawServer serves on a socket until stdin ends, with mTLS when a certificate
// file is named.
func rawServer(socket, cert string) error {
	var opts []grpc.ServerOption
	if cert != "-" {
		conf, err := mutual(cert)
		if err != nil {
			return err
		}
		opts = append(opts, grpc.Creds(credentials.NewTLS(conf)))
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	s := grpc.NewServer(opts...)
	pluginv1.RegisterPluginServiceServer(s, echo{})
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // ends with the parent
		s.Stop()
	}()
	fmt.Println("ready")
	return s.Serve(l)
}

// startRaw starts the plain server and dials it.
func startRaw(dir, cert string) (pluginv1.PluginServiceClient, func(), error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	socket := filepath.Join(dir, fmt.Sprintf("raw%d", len(cert)))
	cmd := exec.Command(self, rawArg, socket, cert)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "ready" {
		return nil, nil, errors.Join(errors.New("the raw server did not start"), err)
	}
	creds := insecure.NewCredentials()
	if cert != "-" {
		conf, err := mutual(cert)
		if err != nil {
			return nil, nil, err
		}
		creds = credentials.NewTLS(conf)
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, nil, err
	}
	end := func() {
		_ = conn.Close()
		_ = in.Close()
		_ = cmd.Wait()
	}
	return pluginv1.NewPluginServiceClient(conn), end, nil
}

// mutual is TLS in which both sides show the one certificate and trust only it,
// as go-plugin's AutoMTLS does with two.
func mutual(file string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, err
	}
	pool.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, ServerName: "localhost", MinVersion: tls.VersionTLS12}, nil
}

// certificate writes a self-signed P-521 pair, the curve AutoMTLS uses.
func certificate(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		return err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return err
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})...)
	return os.WriteFile(file, text, 0o600)
}
