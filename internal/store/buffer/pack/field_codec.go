package pack

import (
	"time"
)

// codec writes fields to a record, or reads them from one: w or r is set. What a record is made of is said once for
// both. Writing changes no field.
type codec struct {
	w *writer
	r *reader
}

func both[T any](c codec, field *T, write func(*writer, T), read func(*reader) T) {
	if c.w != nil {
		write(c.w, *field)
		return
	}
	*field = read(c.r)
}

func (c codec) uint(v *uint64)      { both(c, v, (*writer).uint, (*reader).uint) }
func (c codec) float(v *float64)    { both(c, v, (*writer).float, (*reader).float) }
func (c codec) bool(v *bool)        { both(c, v, (*writer).bool, (*reader).bool) }
func (c codec) bytes(v *[]byte)     { both(c, v, (*writer).bytes, (*reader).bytes) }
func (c codec) time(v *time.Time)   { both(c, v, (*writer).time, (*reader).time) }
func (c codec) floats(v *[]float64) { both(c, v, (*writer).floats, (*reader).floats) }
func (c codec) ints(v *[]int)       { both(c, v, (*writer).ints, (*reader).ints) }
func (c codec) millis(v *float64)   { both(c, v, (*writer).millis, (*reader).millis) }
func (c codec) prompt(v *[]int32)   { both(c, v, (*writer).prompt, (*reader).prompt) }

// history is the record's prompts so far.
func (c codec) history() *history {
	if c.w != nil {
		return &c.w.history
	}
	return &c.r.history
}

func (c codec) completion(ids *[]int32, probs *[]float32) {
	if c.w != nil {
		c.w.completion(*ids, *probs)
		return
	}
	*ids, *probs = c.r.completion()
}

// integer is a whole number.
func integer[T ~int | ~int64](c codec, field *T) {
	v := int64(*field)
	if both(c, &v, (*writer).int, (*reader).int); c.r != nil {
		*field = T(v)
	}
}

// name is a text that is likely to occur again in the record, and text one that is not.
func name[T ~string](c codec, field *T) {
	v := string(*field)
	if both(c, &v, (*writer).name, (*reader).name); c.r != nil {
		*field = T(v)
	}
}

func text(c codec, field *string) {
	v := []byte(*field)
	if c.bytes(&v); c.r != nil {
		*field = string(v)
	}
}

// elements is a list whose elements take at least so many bytes each of the plan column: the one that is written, or
// one as long as was read, whose elements are yet to be read.
func elements[T any](c codec, list *[]T, least int) []T {
	if c.w != nil {
		c.w.uint(uint64(len(*list)))
	} else {
		*list = make([]T, c.r.count(least))
	}
	return *list
}

// optional is elements of a list that is nil where it is empty.
func optional[T any](c codec, list *[]T, least int) []T {
	if elements(c, list, least); c.r != nil && len(*list) == 0 {
		*list = nil
	}
	return *list
}
