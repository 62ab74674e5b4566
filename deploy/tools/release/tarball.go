package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"time"
)

// file is one file of a tarball.
type file struct {
	name string
	mode int64
	data []byte
}

// tarball packs files below one folder. Of the machine that packs them nothing is in it: no owner, and the date is
// given.
func tarball(folder string, files []file, date time.Time) ([]byte, error) {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	into := tar.NewWriter(zip)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: folder + "/" + f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: date.UTC(),
			Format: tar.FormatUSTAR,
		}
		if err := into.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := into.Write(f.data); err != nil {
			return nil, err
		}
	}
	err = errors.Join(into.Close(), zip.Close())
	return packed.Bytes(), err
}
