//go:build !linux

package cli

func slacken() {} // timers have no slack to set
