package promptset

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// jsonLines reads a file with a JSON object a line.
type jsonLines struct{ file *os.File }

func (j jsonLines) read(s span) (row map[string]any, err error) {
	if s.to-s.from > maxRowBytes {
		return nil, tooLarge(s.to - s.from)
	}
	text := make([]byte, s.to-s.from)
	if _, err := j.file.ReadAt(text, s.from); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	// What the line says is not repeated: the file may be another one than its owner thinks.
	if err := decoder.Decode(&row); err != nil || row == nil {
		return nil, errors.New("no JSON object")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than a JSON object")
	}
	return row, nil
}

// spans finds the lines that are not blank, however long they are.
func (j jsonLines) spans() (rows []span, err error) {
	block := make([]byte, 1<<20)
	var at int64
	now, blank := span{number: 1}, true
	end := func() {
		if now.to = at; !blank {
			rows = append(rows, now)
		}
		now, blank = span{from: at + 1, number: now.number + 1}, true
	}
	for {
		n, err := j.file.Read(block)
		for _, c := range block[:n] {
			switch c {
			case '\n':
				end()
			case ' ', '\t', '\r':
			default:
				blank = false
			}
			at++
		}
		if errors.Is(err, io.EOF) {
			end()
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
