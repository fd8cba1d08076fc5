package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-dev/bulkhead/host/internal/host"
	"github.com/bulkhead-dev/bulkhead/host/internal/supervise"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// inspect starts a binary under strict, without network, and prints what it says
// of itself.
func (a *app) inspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect PATH", Short: "What a plugin binary says of itself", Args: takes("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return exit{exitUsage, err}
			}
			dir, err := os.MkdirTemp("", "bh")
			if err != nil {
				return failed(err)
			}
			defer os.RemoveAll(dir)
			s := supervise.New(supervise.Options{DataDir: filepath.Join(dir, "data"), RunDir: filepath.Join(dir, "run"),
				Offers: host.NoOffers{}, Log: a.logger("error"), HostVersion: version()})
			ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
			defer cancel()
			d, err := s.Describe(ctx, supervise.Plugin{Name: strings.TrimPrefix(filepath.Base(path), "bulkhead-plugin-"), Binary: path})
			if err != nil {
				return failed(err)
			}
			if a.json {
				return a.print(described(d))
			}
			return a.description(described(d))
		},
	}
}

// description is what a plugin says of itself, without being configured.
type description struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	SDKVersion string   `json:"sdk_version"`
	Profile    string   `json:"profile"`
	Network    string   `json:"network"`
	Swap       string   `json:"swap"`
	Grants     []string `json:"grants"`
	Config     *body    `json:"config"`
}

type body struct {
	Attributes []attribute `json:"attributes"`
	Blocks     []block     `json:"blocks,omitempty"`
}

type attribute struct {
	Name      string          `json:"name"`
	Type      string          `json:"type"`
	Required  bool            `json:"required"`
	Sensitive bool            `json:"sensitive"`
	Default   json.RawMessage `json:"default,omitempty"`
	Doc       string          `json:"doc"`
}

type block struct {
	Type     string   `json:"type"`
	Labels   []string `json:"labels,omitempty"`
	MinItems uint32   `json:"min_items"`
	MaxItems uint32   `json:"max_items"` // 0 = any number
	Doc      string   `json:"doc"`
	Body     *body    `json:"body"`
}

func described(d *pluginv1.DescribeResponse) *description {
	out := &description{Name: d.Name, Version: d.Version, SDKVersion: d.SdkVersion,
		Profile: or(d.Sandbox.GetProfile(), "strict"), Network: or(d.Sandbox.GetNetwork(), "none"),
		Swap: strings.ToLower(strings.TrimPrefix(d.Swap.String(), "SWAP_")), Grants: d.Grants, Config: bodyOf(d.ConfigSchema)}
	if out.Grants == nil {
		out.Grants = []string{}
	}
	return out
}

func bodyOf(b *pluginv1.ConfigBody) *body {
	out := &body{Attributes: []attribute{}}
	for _, at := range b.GetAttributes() {
		x := attribute{Name: at.Name, Type: configType(at), Required: at.Required, Sensitive: at.Sensitive, Doc: at.Doc}
		if json.Valid(at.DefaultJson) {
			x.Default = at.DefaultJson
		}
		out.Attributes = append(out.Attributes, x)
	}
	for _, bl := range b.GetBlocks() {
		out.Blocks = append(out.Blocks, block{Type: bl.TypeName, Labels: bl.Labels, MinItems: bl.MinItems, MaxItems: bl.MaxItems, Doc: bl.Doc, Body: bodyOf(bl.Body)})
	}
	return out
}

// configType is the type of an attribute as people write it: a quantity is text
// with a unit.
func configType(at *pluginv1.ConfigAttribute) string {
	switch at.Quantity {
	case pluginv1.Quantity_QUANTITY_DURATION:
		return "duration"
	case pluginv1.Quantity_QUANTITY_SIZE:
		return "size"
	}
	return at.Type
}

func (a *app) description(d *description) error {
	fmt.Fprintf(a.people, "%s %s, built with sdk %s\n", d.Name, d.Version, d.SDKVersion)
	fmt.Fprintf(a.people, "sandbox: %s, network %s\n", d.Profile, d.Network)
	fmt.Fprintf(a.people, "swap: %s\n", d.Swap)
	if len(d.Grants) > 0 {
		fmt.Fprintf(a.people, "asks for grants: %s\n", strings.Join(d.Grants, ", "))
	}
	rows := d.Config.rows("")
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(a.people)
	return a.table(append([][]string{{"CONFIG", "TYPE", "DEFAULT", "ABOUT"}}, rows...))
}

// rows lists a body and those inside it, each step indented.
func (b *body) rows(indent string) (rows [][]string) {
	for _, at := range b.Attributes {
		value := or(string(at.Default), "-")
		if at.Required {
			value = "required"
		}
		rows = append(rows, []string{indent + at.Name, at.Type, firstLine(value, 30), firstLine(at.Doc, 70)})
	}
	for _, bl := range b.Blocks {
		value := "-"
		if bl.MinItems > 0 {
			value = "required"
		}
		rows = append(rows, []string{indent + bl.Type + strings.Repeat(" \"…\"", len(bl.Labels)), "block", value, firstLine(bl.Doc, 70)})
		rows = append(rows, bl.Body.rows(indent+"  ")...)
	}
	return rows
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
