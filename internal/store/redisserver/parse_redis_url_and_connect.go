// Package redisserver is which Redis a URL names, how it is reached, and whether it keeps what is written to it: one
// server, one behind Sentinels, or a Cluster. What is kept there is the stores' business. Start reading at Parse, then
// Check.
package redisserver

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Address is a Redis, as a URL names it. The zero Address names no Redis.
type Address struct {
	single   *redis.Options
	sentinel *redis.FailoverOptions
	cluster  *redis.ClusterOptions
}

// URLForms describes the accepted URLs, for messages.
const URLForms = "redis://host:port/db, redis+sentinel://host:port,host:port/db?master=NAME, " +
	"redis+cluster://host:port,host:port, rediss for TLS, or unix:///path"

// Parse reads a URL: redis:// or unix:// names a server, redis+sentinel:// the Sentinels that know which server is the
// master of a name, redis+cluster:// some nodes of a Cluster; with rediss instead of redis all are reached over TLS.
// Several hosts without a scheme that says which are a Cluster, or Sentinels where a master is named. User and password
// are those of Redis; Sentinels have theirs in sentinel_username and sentinel_password. Other parameters are those of
// go-redis, such as pool_size and read_timeout. Every call is bounded by its context, also while it waits for a socket.
func Parse(text string) (Address, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return Address{}, errors.New("want " + URLForms)
	}
	if scheme == "unix" {
		return single(text)
	}
	plain, kind, _ := strings.Cut(scheme, "+")
	if plain != "redis" && plain != "rediss" || !slices.Contains([]string{"", "sentinel", "cluster"}, kind) {
		return Address{}, fmt.Errorf("%s:// is no address of a Redis: want %s", scheme, URLForms)
	}
	u, hosts, err := split(plain, rest)
	if err != nil {
		return Address{}, err
	}
	query := u.Query()
	if name := query.Get("master"); name != "" {
		query.Del("master")
		query.Set("master_name", name)
	}
	master := query.Get("master_name")
	switch {
	case kind == "sentinel" && master == "":
		return Address{}, errors.New("no master is named for the Sentinels: add ?master=NAME")
	case kind == "cluster" && master != "":
		return Address{}, errors.New("a Cluster has no master of a name: leave master out, or say redis+sentinel")
	case kind == "sentinel" || master != "":
		return behindSentinels(u, hosts, query)
	case kind == "cluster" || len(hosts) > 1:
		return inCluster(u, hosts, query)
	}
	u.RawQuery = query.Encode()
	return single(u.String())
}

// split reads a URL with several hosts, which package url refuses. The URL has the first one.
func split(scheme, rest string) (*url.URL, []string, error) {
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	user, list := "", authority
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		user, list = authority[:i+1], authority[i+1:]
	}
	hosts := strings.Split(list, ",")
	for _, host := range hosts {
		if host == "" {
			return nil, nil, errors.New("the address of Redis has no host, or an empty one: want " + URLForms)
		}
	}
	u, err := url.Parse(scheme + "://" + user + hosts[0] + path)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err // without the URL, which may hold a password
		}
		return nil, nil, fmt.Errorf("the address of Redis cannot be read: %w", err)
	}
	return u, hosts, nil
}

func single(text string) (Address, error) {
	o, err := redis.ParseURL(text)
	if err != nil {
		return Address{}, err
	}
	o.ContextTimeoutEnabled = true
	return Address{single: o}, nil
}

func behindSentinels(u *url.URL, hosts []string, query url.Values) (Address, error) {
	if u.User != nil {
		query.Set("username", u.User.Username())
		if password, set := u.User.Password(); set {
			query.Set("password", password)
		}
		u.User = nil
	}
	name, password := query.Get("sentinel_username"), query.Get("sentinel_password")
	query.Del("sentinel_username")
	query.Del("sentinel_password")
	if name != "" || password != "" {
		u.User = url.UserPassword(name, password)
	}
	addAddresses(query, hosts[1:], "26379")
	if u.Port() == "" {
		u.Host += ":26379"
	}
	u.RawQuery = query.Encode()
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return Address{}, err
	}
	o.ContextTimeoutEnabled = true
	return Address{sentinel: o}, nil
}

// redirects is how often a call to a Cluster is sent again, with rests of up to half a second, while its slot moves to
// another node or a replica is promoted. Its context bounds it besides.
const redirects = 8

func inCluster(u *url.URL, hosts []string, query url.Values) (Address, error) {
	if db := strings.Trim(u.Path, "/"); db != "" && db != "0" {
		return Address{}, fmt.Errorf("a Redis Cluster has no database %s, only 0", db)
	}
	u.Path = ""
	addAddresses(query, hosts[1:], "6379")
	u.RawQuery = query.Encode()
	o, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return Address{}, err
	}
	o.ContextTimeoutEnabled = true
	o.MaxRedirects = cmp.Or(o.MaxRedirects, redirects)
	return Address{cluster: o}, nil
}

// addAddresses adds hosts as go-redis takes more than one.
func addAddresses(query url.Values, hosts []string, port string) {
	for _, host := range hosts {
		if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") {
			host += ":" + port
		}
		query.Add("addr", host)
	}
}

// Connect makes a client; it does not connect yet.
func (a Address) Connect() redis.UniversalClient {
	switch {
	case a.sentinel != nil:
		return redis.NewFailoverClient(a.sentinel)
	case a.cluster != nil:
		rdb := redis.NewClusterClient(a.cluster)
		if hook := boundedCalls(a.cluster); hook != nil {
			rdb.AddHook(hook)
		}
		return rdb
	}
	return redis.NewClient(a.single)
}

// String is the address without passwords.
func (a Address) String() string {
	switch {
	case a.sentinel != nil:
		return fmt.Sprintf("the master %s of the Sentinels at %s", a.sentinel.MasterName,
			strings.Join(a.sentinel.SentinelAddrs, ", "))
	case a.cluster != nil:
		return "the Cluster at " + strings.Join(a.cluster.Addrs, ", ")
	case a.single != nil:
		return a.single.Addr
	}
	return "nowhere"
}

// Identity tells Redises apart, without what may change while they stay the same, such as a password.
func (a Address) Identity() string {
	switch {
	case a.sentinel != nil:
		addresses := slices.Sorted(slices.Values(a.sentinel.SentinelAddrs))
		return fmt.Sprintf("sentinel\n%s\n%s\n%d", a.sentinel.MasterName, strings.Join(addresses, " "), a.sentinel.DB)
	case a.cluster != nil:
		return "cluster\n" + strings.Join(slices.Sorted(slices.Values(a.cluster.Addrs)), " ")
	case a.single != nil:
		return a.single.Addr + "\n" + a.single.Network + "\n" + string(rune('0'+a.single.DB))
	}
	return ""
}

// Redacted is a Redis URL without its secrets.
func Redacted(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return text
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		if name, _, has := strings.Cut(authority[:i], ":"); has {
			authority = name + ":xxxxx" + authority[i:]
		}
	}
	before, query, has := strings.Cut(path, "?")
	if has {
		values := strings.Split(query, "&")
		for i, v := range values {
			if key, _, _ := strings.Cut(v, "="); strings.Contains(key, "password") {
				values[i] = key + "=xxxxx"
			}
		}
		path = before + "?" + strings.Join(values, "&")
	}
	return scheme + "://" + authority + path
}
