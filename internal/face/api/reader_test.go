package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// deadlines is a connection that notes each deadline it is given.
type deadlines struct {
	http.ResponseWriter
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// TestAReaderThatGoesOnReadingIsNotCutOff: each piece of an answer has a deadline of its own, so that an answer of
// any size is delivered to a slow reader, and one that stops reading is cut within the time of one piece.
func TestAReaderThatGoesOnReadingIsNotCutOff(t *testing.T) {
	t.Parallel()
	for _, patience := range []time.Duration{0, streamTimeout} {
		d := &deadlines{ResponseWriter: httptest.NewRecorder()}
		w := &answerWriter{ResponseWriter: d, patience: patience}
		before := time.Now()
		n, err := w.Write(make([]byte, 10*writePiece+1))
		if err != nil || n != 10*writePiece+1 {
			t.Fatalf("wrote %d bytes, %v", n, err)
		}
		if len(d.set) < 11 {
			t.Errorf("%d deadlines for 11 pieces", len(d.set))
		}
		want := writeTimeout
		if patience > 0 {
			want = patience
		}
		for _, at := range d.set[1:] { // The first is of the header.
			if at.Before(before.Add(want)) || at.After(time.Now().Add(want)) {
				t.Errorf("a piece has until %v, %v after its write began; want %v", at, at.Sub(before), want)
			}
		}
	}
}
