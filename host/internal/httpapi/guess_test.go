package httpapi

import (
	"fmt"
	"testing"
)

// Wrong tokens are counted by whoever sends them, and who is counted is bounded.
func TestGuesses(t *testing.T) {
	var g guesses
	for i := range guessBurst {
		if wait := g.wrong("192.0.2.1:" + fmt.Sprint(1000+i)); wait != 0 {
			t.Fatalf("the guess number %d waits %s", i+1, wait)
		}
	}
	if g.wrong("192.0.2.1:9") == 0 || g.wrong("[::ffff:192.0.2.1]:9") == 0 {
		t.Error("one more does not wait")
	}
	if g.wrong("192.0.2.2:9") != 0 {
		t.Error("a neighbour waits")
	}
	for i := range guessBurst {
		g.wrong(fmt.Sprintf("[2001:db8::%x]:1", i+1))
	}
	if g.wrong("[2001:db8::ffff:1]:1") == 0 {
		t.Error("another address of the same network does not wait")
	}
	if g.wrong("[2001:db8:0:1::1]:1") != 0 {
		t.Error("another network waits")
	}
	for i := range 3 * guessers {
		g.wrong(fmt.Sprintf("10.%d.%d.1:1", i>>8, i&255))
	}
	if len(g.from) != guessers {
		t.Errorf("%d addresses are remembered", len(g.from))
	}
	g.wrong("@") // a socket's peer has no address
}
