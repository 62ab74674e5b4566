package rollout

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// Duration is a time.Duration written as text: "60s", "15m", "30d".
type Duration time.Duration

// Std is d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Seconds is d in seconds.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }

// String is the standard library's notation.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes "1m30s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// wellFormed is durations of any length.
var wellFormed = regexp.MustCompile(`^[-+]?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`)

// UnmarshalText reads "1m30s", and days of 24 hours alone or before it: "30d", "1d12h".
func (d *Duration) UnmarshalText(b []byte) error {
	text, days := string(b), time.Duration(0)
	if found := withDays.FindStringSubmatch(text); found != nil {
		n, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil || n > maxDays {
			return tooLong(b)
		}
		days, text = time.Duration(n)*24*time.Hour, cmp.Or(found[2], "0s")
	}
	v, err := time.ParseDuration(text)
	if err != nil && wellFormed.MatchString(text) || err == nil && days > math.MaxInt64-max(v, 0) {
		return tooLong(b)
	}
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 90s, 15m or 1h30m", b)
	}
	*d = Duration(days + v)
	return nil
}

// withDays is a number of days, and what stands behind it.
var withDays = regexp.MustCompile(`^([0-9]+)d([0-9].*)?$`)

// maxDays is what a time.Duration can hold.
const maxDays = int64(math.MaxInt64 / (24 * time.Hour))

func tooLong(b []byte) error {
	return fmt.Errorf("%q is too long: the longest duration is 2562047h, about 292 years", b)
}
