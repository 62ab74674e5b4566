package api

import (
	"cmp"
	"net/http"
	"time"
)

// A client must read each piece of an answer within this time, or the connection is cut. A batch of any size is
// delivered to a client that goes on reading.
const (
	writeTimeout = 30 * time.Second
	writePiece   = 64 << 10
)

// answerWriter remembers how a request was answered and gives each piece of the answer a deadline.
type answerWriter struct {
	http.ResponseWriter
	now      func() time.Time
	patience time.Duration // with the reader of one piece; 0: writeTimeout
	status   int
	bytes    int64
}

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.extend()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *answerWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	total := 0
	for first := true; first || len(b) > 0; first = false {
		piece := b[:min(len(b), writePiece)]
		w.extend()
		n, err := w.ResponseWriter.Write(piece)
		total += n
		w.bytes += int64(n)
		if err != nil {
			return total, err
		}
		b = b[len(piece):]
	}
	return total, nil
}

// extend gives the client its time from now. The connection is the real world's, and so is its clock. A connection
// without deadlines, as in some tests, has none.
func (w *answerWriter) extend() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(cmp.Or(w.patience, writeTimeout)))
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
