// A GCS server on loopback for the tests: fake-gcs-server, with names for the parts of a batch.
//
// google-cloud-storage for Python sends the parts of a batch without a Content-ID, and fake-gcs-server leaves such
// parts out of its answer, so that renaming and deleting in batches would fail.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

const partHeader = "Content-Type: application/http"

// named numbers the parts of a batch; each header line is one part's.
func named(body []byte) []byte {
	parts := bytes.Split(body, []byte(partHeader))
	var out bytes.Buffer
	out.Write(parts[0])
	for i, part := range parts[1:] {
		fmt.Fprintf(&out, "Content-ID: <part+%d>\r\n%s", i+1, partHeader)
		out.Write(part)
	}
	return out.Bytes()
}

func withNamedParts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/batch/") {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			body = named(body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		next.ServeHTTP(w, r)
	})
}

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	public := flag.String("public", "", "host:port that clients use, if it is another one")
	root := flag.String("root", "", "folder of the objects")
	bucket := flag.String("bucket", "evalbeam", "bucket there is from the start")
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	if *public == "" {
		*public = listener.Addr().String()
	}
	if err := os.MkdirAll(filepath.Join(*root, *bucket), 0o755); err != nil {
		log.Fatal(err)
	}
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener: true, StorageRoot: *root, Scheme: "http",
		ExternalURL: "http://" + *public, PublicHost: *public, Writer: io.Discard,
	})
	if err != nil {
		log.Fatal(err)
	}
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: *bucket})
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, withNamedParts(server.HTTPHandler())))
}
