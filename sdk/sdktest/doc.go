// Package sdktest tests plugins the way the host meets them: over the protocol,
// through a real socket. Start serves a plugin inside the test process and Launch
// starts a built binary; both give a Session with which a test calls tools in a
// line or two. Run and RunBinary put either through the same conformance cases.
//
//	s := sdktest.Start(t, weather.Plugin(), sdktest.Config(`{"units":"metric"}`))
//	r := s.Call("forecast", `{"city":"Oslo"}`)
//	r.WantText("sunny")
//
// Behind a session stands a host service in memory, with state, working memory,
// an inbox and answers to questions that the test sets.
package sdktest
