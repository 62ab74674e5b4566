package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/hex"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom is the bill of materials of a program, as the Go linker has written it into the program itself: every module
// that is in it, with its version and checksum, and Go's own libraries.
func sbom(built *buildinfo.BuildInfo, digest [32]byte, r release) ([]byte, error) {
	bom := cdx.NewBOM()
	main := component(built.Main.Path, r.version, "")
	main.Type = cdx.ComponentTypeApplication
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(digest[:])}}
	properties := []cdx.Property{{Name: "millrace:commit", Value: r.commit}}
	for _, s := range built.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "CGO_ENABLED" || s.Key == "-tags" {
			properties = append(properties, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
		}
	}
	main.Properties = &properties
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.date.UTC().Format(time.RFC3339), Component: &main,
		Lifecycles: &[]cdx.Lifecycle{{Phase: cdx.LifecyclePhaseBuild}},
	}
	parts := []cdx.Component{component("std", "v"+strings.TrimPrefix(built.GoVersion, "go"), "")}
	for _, m := range built.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, component(m.Path, m.Version, m.Sum))
	}
	refs := make([]string, len(parts))
	for i, p := range parts {
		refs[i] = p.BOMRef
	}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	err := encoder.Encode(bom)
	return out.Bytes(), err
}

func component(path, version, sum string) cdx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}
