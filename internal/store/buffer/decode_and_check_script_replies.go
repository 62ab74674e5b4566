package buffer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// reply is a script's answer, or values that were kept together. What is not there is a zero value; eval has seen to
// it that an answer is as its script declares.
type reply []any

func (r reply) code() rollout.RefusalCode { return rollout.RefusalCode(r.str(0)) }

func (r reply) ok() bool { return r.str(0) == "ok" }

func (r reply) str(i int) string {
	if i >= len(r) {
		return ""
	}
	switch v := r[i].(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

func (r reply) int(i int) int64 {
	n, _ := strconv.ParseInt(r.str(i), 10, 64)
	return n
}

func (r reply) list(i int) reply {
	if i >= len(r) {
		return nil
	}
	l, _ := r[i].([]any)
	return l
}

func (r reply) seqs(i int) []rollout.GroupSeq {
	l := r.list(i)
	out := make([]rollout.GroupSeq, len(l))
	for j := range l {
		out[j] = rollout.GroupSeq(l.int(j))
	}
	return out
}

// fields is a hash's fields and values in turn.
func (r reply) fields(i int) map[string]string {
	l := r.list(i)
	out := make(map[string]string, len(l)/2)
	for j := 0; j+1 < len(l); j += 2 {
		out[l.str(j)] = l.str(j + 1)
	}
	return out
}

func (r reply) counts() steprecord.BufferCounts {
	return steprecord.BufferCounts{
		Queued: r.int(0), InFlight: r.int(1), Ready: r.int(2), Claimed: r.int(3),
		Completed: r.int(4), Dropped: r.int(5), Bytes: r.int(6),
	}
}

// words reads numbers that a script has joined with spaces.
func words(s string) reply {
	var r reply
	for _, w := range strings.Fields(s) {
		r = append(r, w)
	}
	return r
}

// readAnswer reads a declaration such as "ok generation:int from:int".
func readAnswer(declared string) (code string, kinds []string) {
	parts := strings.Fields(declared)
	for _, word := range parts[1:] {
		_, kind, _ := strings.Cut(word, ":")
		if valid[kind] == nil {
			panic(fmt.Sprintf("buffer: a script declares %q, which has no kind", word))
		}
		kinds = append(kinds, kind)
	}
	return parts[0], kinds
}

// valid reports of each kind whether a value is of it.
var valid = map[string]func(any) bool{
	"text":   isText,
	"int":    isInt,
	"list":   func(v any) bool { return isList(v, func(any) bool { return true }) },
	"ints":   func(v any) bool { return isList(v, isInt) },
	"pairs":  func(v any) bool { return isList(v, isText) && len(v.([]any))%2 == 0 },
	"counts": func(v any) bool { return isList(v, isInt) && len(v.([]any)) == 7 },
}

func isText(v any) bool {
	switch v.(type) {
	case string, int64:
		return true
	}
	return false
}

// isInt takes texts as well: values that a script reads from Redis are texts.
func isInt(v any) bool {
	switch v := v.(type) {
	case int64:
		return true
	case string:
		_, err := strconv.ParseInt(v, 10, 64)
		return err == nil
	}
	return false
}

func isList(v any, of func(any) bool) bool {
	list, is := v.([]any)
	return is && !slices.ContainsFunc(list, func(v any) bool { return !of(v) })
}

// declares reports whether the script may give an answer.
func (sc *script) declares(r reply) bool {
	return slices.ContainsFunc(sc.answers[r.str(0)], func(kinds []string) bool {
		for i, kind := range kinds {
			if len(r) != len(kinds)+1 || !valid[kind](r[i+1]) {
				return false
			}
		}
		return len(r) == len(kinds)+1
	})
}

// stamp is an instant as the scripts keep it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// readStamp reads an instant that the scripts keep; an empty text is the zero time.
func readStamp(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339Nano, text)
}
