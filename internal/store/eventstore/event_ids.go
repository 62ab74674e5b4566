package store

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

var idPattern = regexp.MustCompile(`^[0-9]{1,19}-[0-9]{1,19}$`)

// Position is where to read on after an id.
func Position(after string) (string, error) {
	switch {
	case after == "":
		return "-", nil
	case !idPattern.MatchString(after):
		return "", rollout.Refuse(rollout.Invalid, "event id %q: want one that an event was listed with, such as "+
			"1700000000000-0", after)
	}
	return "(" + after, nil
}

// Earlier reports whether id a, or the beginning if it is empty, comes before id b.
func Earlier(a, b string) bool {
	aMs, aSeq := SplitID(a)
	bMs, bSeq := SplitID(b)
	return aMs < bMs || aMs == bMs && aSeq < bSeq
}

// SplitID is the parts of an id: when it was given, in ms, and a number among those of that time.
func SplitID(id string) (ms, seq uint64) {
	left, right, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(left, 10, 64) // empty is the beginning; all else was matched or came from Redis
	seq, _ = strconv.ParseUint(right, 10, 64)
	return ms, seq
}
