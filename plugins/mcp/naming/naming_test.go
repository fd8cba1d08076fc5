package naming

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var legal = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func TestPlainNames(t *testing.T) {
	got := Scheme{Server: "calendar"}.Tools([]string{"get_events", "read.file", "a b/c"})
	if want := []string{"calendar__get_events", "calendar__read-file", "calendar__a-b-c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Scheme{Server: "x", Bare: true}).Tools([]string{"echo"}); got[0] != "echo" {
		t.Errorf("bare: %q", got)
	}
}

// C4 and C5: whatever a server calls its tools, all of them have names of their own.
func TestOddNamesStayApart(t *testing.T) {
	odd := []string{"read-file", "read_file", "read.file", "a-tool.with.dots/and spaces", strings.Repeat("x", 135), strings.Repeat("x", 136), "名前", "名字", "--", "", "read-file"}
	for _, server := range []string{"s", "foo bar", strings.Repeat("long", 16)} {
		got := Scheme{Server: server}.Tools(odd)
		seen := map[string]bool{}
		for i, name := range got {
			if odd[i] == "" || i == len(odd)-1 {
				if name != "" {
					t.Errorf("%q got the name %q", odd[i], name)
				}
				continue
			}
			if !legal.MatchString(name) || seen[name] {
				t.Errorf("%q of %q is %q", odd[i], server, name)
			}
			seen[name] = true
		}
		back := slices.Clone(odd)
		slices.Reverse(back)
		again := Scheme{Server: server}.Tools(back)
		slices.Reverse(again)
		for i := range got {
			if odd[i] != "read-file" && got[i] != again[i] {
				t.Errorf("%q is %q, in another order %q", odd[i], got[i], again[i])
			}
		}
	}
	got := Scheme{Server: "s"}.Tools([]string{"read.file", "read-file"})
	if got[1] != "s__read-file" {
		t.Errorf("the exact name had to give way: %q", got)
	}
}

// C5 and C20: servers never take each other's names.
func TestServersStayApart(t *testing.T) {
	seen := map[string]string{}
	for _, server := range []string{"foo-bar", "foo_bar", "foo bar", "foo.bar", "a", "ab"} {
		for _, name := range (Scheme{Server: server}).Tools([]string{"x", "_x", "b__x"}) {
			if other := seen[name]; other != "" {
				t.Errorf("%s and %s both have %s", other, server, name)
			}
			seen[name] = server
		}
	}
}

func TestPromptsGiveWayToTools(t *testing.T) {
	s := Scheme{Server: "s"}
	tools := s.Tools([]string{"plan-prompt"})
	got := s.Prompts([]string{"plan", "other"}, tools)
	if got[1] != "s__other-prompt" || got[0] == tools[0] || !strings.HasSuffix(got[0], "-prompt") || !legal.MatchString(got[0]) {
		t.Errorf("got %q beside %q", got, tools)
	}
}
