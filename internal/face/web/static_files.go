package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
)

//go:embed static
var staticFiles embed.FS

// readAssets answers what each embedded file is, in short. Their addresses say so, and browsers keep them.
func readAssets() (map[string]string, error) {
	tags := map[string]string{}
	files, err := fs.Glob(staticFiles, "static/*")
	if err != nil {
		return nil, fmt.Errorf("read the page's files: %w", err)
	}
	for _, file := range files {
		body, err := staticFiles.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the page's files: %w", err)
		}
		sum := sha256.Sum256(body)
		tags[path.Base(file)] = hex.EncodeToString(sum[:6])
	}
	return tags, nil
}

func (s *Site) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	tag, known := s.pages.assets[name]
	if !known {
		s.deps.Handler.ServeHTTP(w, r)
		return
	}
	secure(w.Header())
	w.Header().Set("Cache-Control", "public, max-age=300")
	if r.URL.Query().Get("v") == tag {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, staticFiles, "static/"+name)
}
