package address

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

func rules(t *testing.T, allow, deny []string) *Rules {
	t.Helper()
	r, err := Config{Allow: allow, Deny: deny}.Rules()
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		allow, deny []string
		fine, not   []string
	}{
		{
			name: "without lists",
			fine: []string{
				"http://127.0.0.1:8000", "http://[::1]:8000", "http://10.0.0.7:8000", "http://gpu7:8000",
				"https://gpu7.internal/team", "http://8.8.8.8",
				"http://[fd00:1::7]:8000", "http://metadata.internal:8000",
			},
			not: []string{
				"http://169.254.169.254", "http://169.254.169.254./", "http://[::ffff:169.254.169.254]",
				"http://[::ffff:a9fe:a9fe]",
				"http://[64:ff9b::a9fe:a9fe]", "http://[2002:a9fe:a9fe::1]", "http://[::169.254.169.254]",
				"http://169.254.1.1:8000",
				"http://[fe80::1]:8000", "http://[fe80::1%25eth0]:8000", "http://224.0.0.1", "http://[ff02::1]",
				"http://0.0.0.0:8000", "http://[::]:8000",
				"http://255.255.255.255", "http://100.100.100.200", "http://168.63.129.16", "http://[fd00:ec2::254]",
				"http://metadata.google.internal",
				"http://METADATA.google.internal.:80/computeMetadata", "http://metadata", "http://kubernetes.default.svc",
				"http://gpu/../admin", "http://gpu/a//b",
				"http://１６９.254.169.254", "http://ⓜetadata.google.internal",
			},
		},
		{
			name:  "ranges",
			allow: []string{"10.0.0.0/8", "fd00::/16"},
			fine:  []string{"http://10.1.2.3:1", "http://[fd00::1]", "http://[::ffff:10.0.0.1]", "http://any-name:8000"},
			not:   []string{"http://11.0.0.1", "http://127.0.0.1:8000", "http://[fd00:ec2::254]"},
		},
		{
			name:  "hosts",
			allow: []string{"gpu7.internal", "*.gpu.internal"},
			fine: []string{"http://gpu7.internal:8000", "https://GPU7.internal", "http://a.gpu.internal",
				"http://a.b.gpu.internal:1/x"},
			not: []string{"http://gpu.internal", "http://xgpu.internal", "http://gpu7.internal.evil.example",
				"http://10.0.0.1", "http://agpu.internal"},
		},
		{
			name:  "beginnings of URLs",
			allow: []string{"http://10.0.0.7:8000/team", "https://*.gpu.internal", "http://10.0.0.8"},
			fine: []string{"http://10.0.0.7:8000/team", "http://10.0.0.7:8000/team/a", "https://a.gpu.internal:9",
				"http://10.0.0.8:1", "http://10.0.0.8"},
			not: []string{
				"http://10.0.0.7:8000", "http://10.0.0.7:8000/teammate", "http://10.0.0.7:80/team", "http://10.0.0.7:80000/team",
				"https://10.0.0.7:8000/team",
				"http://10.0.0.7:8000/team/../admin", "http://a.gpu.internal", "http://10.0.0.80",
			},
		},
		{
			name: "deny comes first", allow: []string{"10.0.0.0/8"},
			deny: []string{"10.0.0.1", "admin.internal", "http://10.0.0.2:22"},
			fine: []string{"http://10.0.0.3", "http://10.0.0.2:8000"},
			not:  []string{"http://10.0.0.1:8000", "http://admin.internal", "http://10.0.0.2:22"},
		},
		{
			name: "link-local, when it is meant", allow: []string{"169.254.10.0/24", "metadata.google.internal", "0.0.0.0/0"},
			fine: []string{"http://169.254.10.9:8000", "http://metadata.google.internal"},
			not:  []string{"http://169.254.169.254", "http://224.0.0.1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := rules(t, tt.allow, tt.deny)
			for _, url := range tt.fine {
				if err := r.Check(url); err != nil {
					t.Errorf("%s is refused: %v", url, err)
				}
			}
			for _, url := range tt.not {
				if err := r.Check(url); !rollout.Refused(err, rollout.Invalid) {
					t.Errorf("%s: got %v, want a refusal", url, err)
				}
			}
		})
	}
}

// TestDial: a name may come to mean another address at any moment, so that the address which it means is judged, too.
func TestDial(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		allow, deny []string
		url, ip     string
		fine        bool
	}{
		{"a private address", nil, nil, "http://gpu:8000", "10.0.0.7", true},
		{"rebound to metadata", nil, nil, "http://gpu:8000", "169.254.169.254", false},
		{"rebound to metadata, written as IPv6", nil, nil, "http://gpu:8000", "::ffff:169.254.169.254", false},
		{"rebound to metadata, behind a translator", nil, nil, "http://gpu:8000", "64:ff9b::a9fe:a9fe", false},
		{"a link with its zone", nil, nil, "http://gpu:8000", "fe80::1%eth0", false},
		{"a number that a resolver reads as an address", nil, nil, "http://2852039166", "169.254.169.254", false},
		{"within the range", []string{"10.0.0.0/8"}, nil, "http://gpu:8000", "10.0.0.7", true},
		{"out of the range", []string{"10.0.0.0/8"}, nil, "http://gpu:8000", "192.168.0.1", false},
		{"an allowed name, anywhere", []string{"gpu"}, nil, "http://gpu:8000", "192.168.0.1", true},
		{"an allowed name, at metadata", []string{"gpu"}, nil, "http://gpu:8000", "169.254.169.254", false},
		{"another name", []string{"gpu"}, nil, "http://cpu:8000", "192.168.0.1", false},
		{"at the address of an allowed URL, by another name", []string{"http://10.0.0.7:8000"}, nil, "http://gpu:22",
			"10.0.0.7", false},
		{"denied at this port", nil, []string{"http://10.0.0.7:8000"}, "http://gpu:8000", "10.0.0.7", false},
		{"denied", nil, []string{"10.0.0.0/24"}, "http://gpu:8000", "10.0.0.7", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			control, err := rules(t, tt.allow, tt.deny).Dial(tt.url)
			if err != nil {
				t.Fatal(err)
			}
			err = control("tcp", net.JoinHostPort(tt.ip, "8000"), nil)
			if (err == nil) != tt.fine || err != nil && !errors.Is(err, errDenied) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"no host":               {Config{Allow: []string{"10.0.0.0/8", "http://"}}, "allow[1]"},
		"a star in the middle":  {Config{Deny: []string{"http://a.*.b"}}, "deny[0]"},
		"another scheme":        {Config{Allow: []string{"ftp://x"}}, "http:// or https://"},
		"a password":            {Config{Allow: []string{"http://a:b@c"}}, "only scheme"},
		"a range in two guises": {Config{Allow: []string{"::ffff:10.0.0.0/104"}}, "IPv4"},
		"a relative file":       {Config{KeysFile: "keys"}, "absolute"},
		"half a certificate":    {Config{TLS: []TLS{{Engines: "gpu", CertFile: "/a"}}}, "belong together"},
		"TLS for nothing":       {Config{TLS: []TLS{{}}}, "tls[0].engines"},
	} {
		err := tt.cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
}

// FuzzRules: whatever is asked for, a URL of a reserved address is refused, and nothing panics.
func FuzzRules(f *testing.F) {
	f.Add("http://10.0.0.7:8000", "10.0.0.0/8")
	f.Add("http://169.254.169.254", "*.internal")
	f.Add("http://[fe80::1%25a]:1", "http://a/b")
	f.Fuzz(func(t *testing.T, url, entry string) {
		r, err := Config{Allow: []string{entry}}.Rules()
		if err != nil {
			r = Rules{}
		}
		if r.Check(url) != nil {
			return
		}
		control, err := r.Dial(url)
		if err != nil {
			t.Fatalf("%q is fine to add, but %v", url, err)
		}
		metadata := netip.MustParseAddr("169.254.169.254")
		meant := false
		for _, p := range r.allow {
			meant = meant || p.contains(metadata) && p.ips.Bits() >= 16
		}
		if err := control("tcp", "169.254.169.254:80", nil); (err == nil) != meant {
			t.Errorf("%q under %q: %v", url, entry, err)
		}
	})
}
