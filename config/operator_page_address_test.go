package config_test

import (
	"testing"

	"github.com/millrace/millrace/config"
)

func TestPageAddress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, yaml, want string }{
		{"where the server listens", "{listen: '127.0.0.1:8701'}", "http://127.0.0.1:8701"},
		{"with a certificate", "{listen: 'rl.example.org:443', tls: {cert_file: a, key_file: b}}",
			"https://rl.example.org:443"},
		{"every interface is no address", "{listen: '0.0.0.0:8700'}", ""},
		{"as it is configured", "{listen: '0.0.0.0:8700', page_url: 'https://example.org/rl/'}",
			"https://example.org/rl"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := config.ReadService("service.yaml", []byte(tt.yaml), func(string) string { return "" })
			if err != nil {
				t.Fatal(err)
			}
			if got := cfg.PageAddress(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
