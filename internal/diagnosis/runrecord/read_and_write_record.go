package runrecord

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxBytes bounds a record: a thousand steps of a hundred groups, with all events, are some 200 MB.
const maxBytes = 1 << 30

// maxObjects bounds the objects in a record, each of which takes far more memory than the two characters that it can
// have in a file. Those thousand steps have half a million.
const maxObjects = 4_000_000

// Write writes a record as one document, gzipped if that is wanted.
func (r *Record) Write(w io.Writer, zipped bool) error {
	if !zipped {
		data, err := json.MarshalIndent(r, "", " ")
		if err != nil {
			return fmt.Errorf("write a run's record: %w", err)
		}
		_, err = w.Write(append(data, '\n'))
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write a run's record: %w", err)
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(append(data, '\n')); err != nil {
		return err
	}
	return z.Close()
}

// Read reads one record, gzipped or not, and holds it to its rules. The name, of a file, stands before every error.
func Read(name string, from io.Reader) (*Record, error) {
	data, err := unzipped(from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := rightFormat(data); err != nil {
		return nil, fmt.Errorf("%s%w", position(name, data, err), err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	r := &Record{}
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%s%s", position(name, data, err), reason(err))
	}
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// unzipped is all of a document, gzipped or not, without the mark that some editors put before a text.
func unzipped(from io.Reader) ([]byte, error) {
	in := bufio.NewReader(from)
	var plain io.Reader = in
	magic, _ := in.Peek(2) // what is shorter is no record either way
	switch {
	case bytes.Equal(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, damaged(err)
		}
		unpacked := bufio.NewReader(z)
		if head, _ := unpacked.Peek(64); begins(head) != '{' { // a few kilobytes may unpack to more than a memory holds
			return nil, errors.New("holds no JSON document; write a record with: millrace run record RUN -f FILE")
		}
		plain = unpacked
	case bytes.Equal(magic, []byte{0xff, 0xfe}), bytes.Equal(magic, []byte{0xfe, 0xff}):
		return nil, errors.New("is UTF-16, which some shells make of what they redirect; write the record with -f FILE")
	}
	data, err := io.ReadAll(io.LimitReader(plain, maxBytes+1))
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	switch {
	case err != nil:
		return nil, damaged(err)
	case len(data) > maxBytes:
		return nil, fmt.Errorf("is larger than %d MB; make a smaller one with: millrace run record RUN --steps 500",
			maxBytes>>20)
	case len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New("is empty")
	case bytes.Count(data, []byte("{")) > maxObjects:
		return nil, fmt.Errorf("holds more than %d million objects; make a smaller one with: millrace run record RUN "+
			"--steps 500", maxObjects/1_000_000)
	}
	return data, nil
}

// begins is the first character of a document that is not a space; '{' if there is none.
func begins(head []byte) byte {
	head = bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	if len(head) == 0 {
		return '{'
	}
	return head[0]
}

// damaged explains how a file was damaged on its way.
func damaged(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("is cut off; record the run again")
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, &corrupt):
		return fmt.Errorf("is damaged (%w); copy it again, or record the run again", err)
	}
	return err
}

// rightFormat reports a document that is something else, or newer than this program, before its fields are looked at.
func rightFormat(data []byte) error {
	var head struct {
		Format  string          `json:"format"`
		Version int             `json:"version"`
		Steps   json.RawMessage `json:"steps"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return err
		}
		return fmt.Errorf("not a run's record: %w", err)
	}
	const how = "write one with: millrace run record RUN -f FILE"
	switch {
	case head.Format == "" && head.Steps != nil:
		return fmt.Errorf("has steps and no format: it is no run's record, perhaps the output of run steps; %s", how)
	case head.Format != Format:
		return fmt.Errorf("format %q: want %q; %s", head.Format, Format, how)
	case head.Version > Version:
		return fmt.Errorf("version %d: this program reads versions up to %d; use a newer one", head.Version, Version)
	case head.Version < 1:
		return fmt.Errorf("version %d: the first is 1", head.Version)
	}
	return nil
}

// position is the file and, as far as the error tells, the line.
func position(name string, data []byte, err error) string {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	offset := int64(-1)
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &wrong):
		offset = wrong.Offset
	}
	if offset < 0 || offset > int64(len(data)) {
		return name + ": "
	}
	return fmt.Sprintf("%s:%d: ", name, 1+bytes.Count(data[:offset], []byte("\n")))
}

func reason(err error) string {
	text := err.Error()
	if unknown, ok := strings.CutPrefix(text, "json: unknown field "); ok {
		return fmt.Sprintf("unknown key %s; a newer program may have written it", unknown)
	}
	return text
}
