package pack

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// writer collects the columns of one record. Its methods never fail.
type writer struct {
	plan    []byte // structure: counts, names, times, rewards
	prompts []byte // prompt token ids
	tokens  []byte // completion token ids
	probs   []float32
	names   map[string]uint64 // strings written before; zstd alone would not make them free
	history history
}

func (w *writer) uint(v uint64) { w.plan = binary.AppendUvarint(w.plan, v) }
func (w *writer) int(v int64)   { w.plan = binary.AppendVarint(w.plan, v) }

func (w *writer) float(v float64) {
	w.plan = binary.LittleEndian.AppendUint64(w.plan, math.Float64bits(v))
}

func (w *writer) bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	w.plan = append(w.plan, b)
}

func (w *writer) bytes(b []byte) {
	w.uint(uint64(len(b)))
	w.plan = append(w.plan, b...)
}

// name writes a string that is likely to occur again: 0 and the string the first time, then its number.
func (w *writer) name(s string) {
	if n, ok := w.names[s]; ok {
		w.uint(n)
		return
	}
	if w.names == nil {
		w.names = map[string]uint64{}
	}
	w.names[s] = uint64(len(w.names) + 1)
	w.uint(0)
	w.bytes([]byte(s))
}

// time writes an instant; the zero time is kept.
func (w *writer) time(t time.Time) {
	w.bool(!t.IsZero())
	if t.IsZero() {
		return
	}
	w.int(t.Unix())
	w.uint(uint64(t.Nanosecond()))
}

func (w *writer) floats(v []float64) {
	w.uint(uint64(len(v)))
	for _, f := range v {
		w.float(f)
	}
}

func (w *writer) ints(v []int) {
	w.uint(uint64(len(v)))
	for _, n := range v {
		w.int(int64(n))
	}
}

// join puts the columns into one buffer: three lengths, then the columns. Log-probabilities are split into
// byte planes: their sign and exponent bytes are alike, their mantissas are noise.
func (w *writer) join() []byte {
	out := make([]byte, 0, len(w.plan)+len(w.prompts)+len(w.tokens)+4*len(w.probs)+3*binary.MaxVarintLen64)
	out = binary.AppendUvarint(out, uint64(len(w.plan)))
	out = binary.AppendUvarint(out, uint64(len(w.prompts)))
	out = binary.AppendUvarint(out, uint64(len(w.tokens)))
	out = append(out, w.plan...)
	out = append(out, w.prompts...)
	out = append(out, w.tokens...)
	for shift := 24; shift >= 0; shift -= 8 {
		for _, p := range w.probs {
			out = append(out, byte(math.Float32bits(p)>>shift))
		}
	}
	return out
}

// reader reads the columns of one record. The first fault stops it: later reads give zero values, and close
// reports it.
type reader struct {
	plan, prompts, tokens, probs []byte
	probCount, probNext          int
	names                        []string
	history                      history
	err                          error
}

// split finds the columns that join has joined.
func split(raw []byte) (*reader, error) {
	var lengths [3]uint64
	for i := range lengths {
		n, size := binary.Uvarint(raw)
		if size <= 0 || n > uint64(len(raw)) {
			return nil, fmt.Errorf("%w: column %d has no length", ErrCorrupt, i)
		}
		lengths[i], raw = n, raw[size:]
	}
	if lengths[0]+lengths[1]+lengths[2] > uint64(len(raw)) {
		return nil, fmt.Errorf("%w: columns are cut off", ErrCorrupt)
	}
	r := &reader{}
	r.plan, raw = raw[:lengths[0]], raw[lengths[0]:]
	r.prompts, raw = raw[:lengths[1]], raw[lengths[1]:]
	r.tokens, raw = raw[:lengths[2]], raw[lengths[2]:]
	if len(raw)%4 != 0 {
		return nil, fmt.Errorf("%w: %d bytes of log-probabilities", ErrCorrupt, len(raw))
	}
	r.probs, r.probCount = raw, len(raw)/4
	return r, nil
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrCorrupt, what)
	}
	r.plan, r.prompts, r.tokens, r.probNext = nil, nil, nil, r.probCount
}

// close reports the first fault; bytes left over are one.
func (r *reader) close() error {
	if r.err == nil && len(r.plan)+len(r.prompts)+len(r.tokens)+r.probCount-r.probNext > 0 {
		r.fail("bytes left over")
	}
	return r.err
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.plan)
	if n <= 0 {
		r.fail("number")
		return 0
	}
	r.plan = r.plan[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.plan)
	if n <= 0 {
		r.fail("number")
		return 0
	}
	r.plan = r.plan[n:]
	return v
}

// count is a number of things that take at least size bytes each: a lie cannot make the reader allocate more
// than the record's own size.
func (r *reader) count(size int) int {
	v := r.uint()
	if v > uint64(len(r.plan)/size) {
		r.fail("count")
		return 0
	}
	return int(v)
}

func (r *reader) float() float64 {
	if len(r.plan) < 8 {
		r.fail("float")
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(r.plan))
	r.plan = r.plan[8:]
	return v
}

func (r *reader) bool() bool {
	if len(r.plan) == 0 || r.plan[0] > 1 {
		r.fail("bool")
		return false
	}
	v := r.plan[0] == 1
	r.plan = r.plan[1:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.count(1)
	out := append([]byte{}, r.plan[:n]...)
	r.plan = r.plan[n:]
	return out
}

func (r *reader) name() string {
	n := r.uint()
	if n == 0 {
		s := string(r.bytes())
		r.names = append(r.names, s)
		return s
	}
	if n > uint64(len(r.names)) {
		r.fail("name")
		return ""
	}
	return r.names[n-1]
}

func (r *reader) time() time.Time {
	if !r.bool() {
		return time.Time{}
	}
	sec, nsec := r.int(), r.uint()
	if nsec >= 1e9 {
		r.fail("time")
		return time.Time{}
	}
	return time.Unix(sec, int64(nsec)).UTC()
}

func (r *reader) floats() []float64 {
	v := make([]float64, r.count(8))
	for i := range v {
		v[i] = r.float()
	}
	return v
}

func (r *reader) ints() []int {
	v := make([]int, r.count(1))
	for i := range v {
		v[i] = int(r.int())
	}
	return v
}
