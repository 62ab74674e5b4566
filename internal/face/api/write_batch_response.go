package api

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/store/buffer"
)

// CompactBatch is the media type of the compact encoding of a batch.
const CompactBatch = "application/x-millrace-batch"

// writeBatch streams the batch group by group, so that it is never in memory as a whole. Once the first byte is out
// an error can only cut the answer short, which every client notices: JSON that does not close, a compact batch
// that is too short.
func (s *Server) writeBatch(hc huma.Context, batch *buffer.RawBatch, accept, coding string) {
	media := "application/json"
	if strings.Contains(accept, CompactBatch) {
		media = CompactBatch
	}
	hc.SetHeader("Content-Type", media)
	hc.SetHeader("Vary", "Accept, Accept-Encoding")
	var out io.Writer = hc.BodyWriter()
	var zip *gzip.Writer
	if media != CompactBatch && acceptsGzip(coding) { // The compact encoding is compressed already.
		hc.SetHeader("Content-Encoding", "gzip")
		zip = newGzip(out)
		out = zip
	}
	hc.SetStatus(http.StatusOK)
	var err error
	if media == CompactBatch {
		err = batch.WriteCompact(out)
	} else {
		err = writeBatchJSON(out, batch)
	}
	if err == nil && zip != nil {
		err = zip.Close()
	}
	if err != nil {
		s.deps.Log.Info("batch not delivered; it may be asked for again", "request_id", requestID(hc.Context()),
			"run", batch.Run, "step", batch.Step, "error", err)
		panic(http.ErrAbortHandler) // Cuts the connection, so that the client cannot take a part for the whole.
	}
}

func newGzip(w io.Writer) *gzip.Writer {
	zip, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		panic(err) // BestSpeed is a valid level.
	}
	return zip
}

// acceptsGzip reports whether an Accept-Encoding header names gzip, and not with q=0.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		coding, params, _ := strings.Cut(part, ";")
		if strings.TrimSpace(coding) != "gzip" {
			continue
		}
		q, isQ := strings.CutPrefix(strings.TrimSpace(params), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		return !isQ || err == nil && weight > 0
	}
	return false
}
