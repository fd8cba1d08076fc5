package bridge

import (
	"fmt"
	"testing"
)

// Whatever is called, a session never has more sets than there are places.
func TestPinsAreBounded(t *testing.T) {
	var p pins
	host := map[string]string{}
	call := func(server, mark string, most int) {
		set, fresh, dropped := p.use("s", server, mark, most)
		for _, d := range dropped {
			delete(host, d)
		}
		if fresh {
			host[set] = server + " " + mark
		}
		if host[set] != server+" "+mark {
			t.Errorf("%s %s is not in its place: %v", server, mark, host)
		}
		if len(host) > 3 {
			t.Errorf("%d sets: %v", len(host), host)
		}
	}
	for i := range 100 {
		call(fmt.Sprintf("server%d", i%5), fmt.Sprint(i/10), 3)
	}
	call("a", "1", 3)
	call("b", "1", 3)
	call("c", "1", 3)
	call("a", "2", 3) // its tools moved
	call("d", "1", 3) // b goes, the least recently called
	if got := fmt.Sprint(host); got != "map[called 1:a 2 called 2:d 1 called 3:c 1]" && len(host) != 3 {
		t.Error(got)
	}
	for _, v := range host {
		if v == "b 1" {
			t.Errorf("b is still listed: %v", host)
		}
	}
	call("d", "1", 1) // fewer places
	if len(host) != 1 {
		t.Errorf("%v", host)
	}
	p = pins{} // another process
	call("x", "1", 3)
	for i := range maxPinSessions + 10 {
		p.use(fmt.Sprint(i), "x", "1", 3)
	}
	if len(p.sets) > maxPinSessions || len(p.order) > maxPinSessions {
		t.Errorf("%d sessions are remembered", len(p.sets))
	}
}
