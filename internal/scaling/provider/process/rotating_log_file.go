package process

import (
	"io"
	"os"
	"sync"
)

// boundedLog is a file that is begun anew when it is full; the last full one is kept beside it. It takes everything: an
// engine must not stop because its log cannot be written.
type boundedLog struct {
	path  string
	limit int64

	mu   sync.Mutex
	file *os.File // nil: it could not be opened
	size int64
	last []byte // of what was written, the newest
}

// lastBytes is how much of its end a log has at hand.
const lastBytes = 4 << 10

var _ io.Writer = (*boundedLog)(nil)

func openBoundedLog(path string, limit int64) *boundedLog {
	l := &boundedLog{path: path, limit: limit}
	l.open()
	return l
}

func (l *boundedLog) open() {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	l.file = f
	if info, err := f.Stat(); err == nil {
		l.size = info.Size()
	}
}

// Write never fails.
func (l *boundedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last, p[max(0, len(p)-lastBytes):]...)
	l.last = append(l.last[:0:0], l.last[max(0, len(l.last)-lastBytes):]...)
	if l.size > 0 && l.size+int64(len(p)) > l.limit {
		l.turn()
	}
	if l.file != nil {
		n, _ := l.file.Write(p) // a full disk: what does not fit is lost
		l.size += int64(n)
	}
	return len(p), nil
}

// turn begins a new file.
func (l *boundedLog) turn() {
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
	l.size = 0
	_ = os.Rename(l.path, l.path+".1")
	l.open()
}

func (l *boundedLog) tail() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *boundedLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
	}
}
