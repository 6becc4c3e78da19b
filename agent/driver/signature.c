#include "agent/driver/driver.h"

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

#define KEYS_MAX 64

static const char *const folders[] = {"/etc/hasten/keys", "/usr/lib/hasten/keys"};

static void free_key(EVP_PKEY **k)
{
	EVP_PKEY_free(*k);
}

static void free_bio(BIO **b)
{
	BIO_free(*b);
}

static void free_digest(EVP_MD_CTX **c)
{
	EVP_MD_CTX_free(*c);
}

/* NULL: no Ed25519 key in it. */
static EVP_PKEY *read_key(struct sys *s, const char *path)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_(free_bio) BIO *bio = NULL;
	size_t len;

	if (sys_read(s, path, &text, &len) < 0 || len > 16384 || !(bio = BIO_new_mem_buf(text, (int)len)))
		return NULL;
	EVP_PKEY *key = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
	if (key && EVP_PKEY_base_id(key) != EVP_PKEY_ED25519) {
		EVP_PKEY_free(key);
		key = NULL;
	}
	return key;
}

static bool fits(EVP_PKEY *key, const void *data, size_t len, const void *signature, size_t signature_len)
{
	_cleanup_(free_digest) EVP_MD_CTX *context = EVP_MD_CTX_new();

	return context && EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1 &&
	       EVP_DigestVerify(context, signature, signature_len, data, len) == 1;
}

int signature_verify(struct sys *s, const void *data, size_t len, const void *signature, size_t signature_len, char **ret_key, struct error *e)
{
	unsigned keys = 0;

	if (signature_len != 64)
		return error_set(e, -EKEYREJECTED, "a signature of %zu bytes; an Ed25519 signature has 64", signature_len);
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		char **names;
		if (sys_list(s, &names, "%s", folders[i]) < 0)
			continue;
		for (char **name = names; *name && keys < KEYS_MAX; name++) {
			_cleanup_free_ char *path = NULL;
			_cleanup_(free_key) EVP_PKEY *key = NULL;
			size_t n = strlen(*name);

			if (n < 5 || strcmp(*name + n - 4, ".pem") || asprintf(&path, "%s/%s", folders[i], *name) < 0 || !(key = read_key(s, path)))
				continue;
			keys++;
			if (fits(key, data, len, signature, signature_len)) {
				sys_list_free(names);
				*ret_key = take_ptr(path);
				return 0;
			}
		}
		sys_list_free(names);
	}
	if (!keys)
		return error_set(e, -ENOKEY, "no key to check its signature with: put the vendor's Ed25519 public key (PEM) into /etc/hasten/keys/NAME.pem");
	return error_set(e, -EKEYREJECTED, "its signature fits none of %u keys in /etc/hasten/keys and /usr/lib/hasten/keys: the file was altered, "
					   "or the key of who signed it is not there", keys);
}

int sha256_file(const char *path, char ret_hex[65])
{
	_cleanup_(free_digest) EVP_MD_CTX *context = EVP_MD_CTX_new();
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	unsigned char digest[EVP_MAX_MD_SIZE];
	static unsigned char block[65536];
	unsigned digest_len;
	size_t n;

	if (!f)
		return -errno;
	if (!context || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1)
		return -ENOMEM;
	while ((n = fread(block, 1, sizeof(block), f)) > 0)
		if (EVP_DigestUpdate(context, block, n) != 1)
			return -ENOMEM;
	if (ferror(f))
		return -EIO;
	if (EVP_DigestFinal_ex(context, digest, &digest_len) != 1 || digest_len != 32)
		return -ENOMEM;
	for (unsigned i = 0; i < 32; i++)
		snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
	return 0;
}
