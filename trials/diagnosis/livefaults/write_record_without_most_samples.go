package main

import (
	"errors"
	"os"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/trials/diagnosis/smallrecord"
)

// keptSamples is of how many samples of each source one is kept, so that records stay small.
const keptSamples = 10

// compact writes a record without most of its samples.
func compact(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	record, err := runrecord.Read(from, in)
	if err != nil {
		return err
	}
	smallrecord.Thin(record, keptSamples)
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(record.Write(out, true), out.Close())
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }
