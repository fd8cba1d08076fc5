package config

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// ParseDuration reads "90s", "1h30m", "250ms"; "0" needs no unit.
func ParseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if bareNumber(text) {
		return 0, fmt.Errorf("a duration needs a unit, such as %q", text+"s")
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, errors.New(`a duration is a number and a unit: "250ms", "30s", "5m", "12h"`)
	case d < 0:
		return 0, errors.New("a duration can't be negative")
	}
	return d, nil
}

// ParseSize reads "512MiB", "64KB" or "100B" as bytes; "0" needs no unit.
func ParseSize(text string) (int64, error) {
	if text == "0" {
		return 0, nil
	}
	if bareNumber(text) {
		return 0, fmt.Errorf("a size needs a unit, such as %q", text+"MiB")
	}
	n, err := humanize.ParseBytes(text)
	switch {
	case err != nil:
		return 0, errors.New(`a size is a number and a unit: "64KiB", "512MiB", "2GiB"`)
	case n > math.MaxInt64:
		return 0, errors.New("the size is too large")
	}
	return int64(n), nil
}

func bareNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789.") == ""
}
