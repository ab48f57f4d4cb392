"""The settings of an object store: which environment variables are read, and what is passed to Lance and obstore.

Both libraries read the process environment by themselves as well, and there `AWS_ENDPOINT_URL_S3` overrides an endpoint
that is passed in. So every setting that decides where bytes are stored is passed explicitly, under every name that
could win.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from omnigraph.errors import InvalidUri

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# In the order in which a later one wins.
_S3_VARIABLES = {
    "AWS_DEFAULT_REGION": "aws_region",
    "AWS_REGION": "aws_region",
    "AWS_ACCESS_KEY_ID": "aws_access_key_id",
    "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
    "AWS_SESSION_TOKEN": "aws_session_token",
    "AWS_ENDPOINT": "aws_endpoint",
    "AWS_ENDPOINT_URL": "aws_endpoint",
    "AWS_ENDPOINT_URL_S3": "aws_endpoint",
    "AWS_ALLOW_HTTP": "allow_http",
}
# Later ones win. Lance by itself reads only the last one.
_DYNAMO_VARIABLES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "DYNAMODB_ENDPOINT")
_GS_VARIABLES = (
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SKIP_SIGNATURE",
    "GOOGLE_BASE_URL",
)
_AZ_VARIABLES = (
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_CLIENT_ID",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_TENANT_ID",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_TOKEN",
    "AZURE_STORAGE_USE_EMULATOR",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_TENANT_ID",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_USE_AZURE_CLI",
    "AZURE_ENDPOINT",
)
_S3_KEYS = {
    "region": "aws_region",
    "default_region": "aws_region",
    "aws_default_region": "aws_region",
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "token": "aws_session_token",
    "aws_token": "aws_session_token",
    "endpoint": "aws_endpoint",
    "endpoint_url": "aws_endpoint",
    "aws_endpoint_url": "aws_endpoint",
    "endpoint_url_s3": "aws_endpoint",
    "aws_endpoint_url_s3": "aws_endpoint",
    "aws_allow_http": "allow_http",
    "virtual_hosted_style_request": "aws_virtual_hosted_style_request",
}
_TRUE = frozenset({"1", "true", "yes", "on"})
_SECRET_WORDS = ("secret", "token", "key", "sas", "password", "credential", "service_account")


class StorageOptions(dict[str, str]):
    """Settings in the form that Lance takes, a plain dict whose repr hides the values."""

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(sorted(self))})"

    __str__ = __repr__


def storage_settings(
    scheme: str, bucket: str, environ: Mapping[str, str], given: Mapping[str, str], *, uri: str
) -> StorageOptions:
    """The storage options for Lance; `given` overrides the environment."""
    if scheme == "gs":
        return StorageOptions(_named(_GS_VARIABLES, environ) | _allow_http(environ, "GOOGLE_ALLOW_HTTP") | dict(given))
    if scheme == "az":
        return StorageOptions(_named(_AZ_VARIABLES, environ) | _allow_http(environ, "AZURE_ALLOW_HTTP") | dict(given))
    dynamo = _dynamo_endpoint(environ) if scheme == "s3+ddb" else {}
    return _s3_settings(bucket, environ, dynamo | dict(given), uri)


def secret_values(options: Mapping[str, str] | None) -> tuple[str, ...]:
    """The values that must never be displayed."""
    found = (value for name, value in (options or {}).items() if any(word in name.lower() for word in _SECRET_WORDS))
    return tuple(sorted((value for value in found if value), key=len, reverse=True))


def display_uri(uri: str) -> str:
    """The URI as it may appear in a message: without user, password and query, which can contain credentials."""
    scheme, separator, rest = uri.partition("://")
    host, slash, path = rest.partition("/")
    return scheme + separator + host.rpartition("@")[2] + slash + path.partition("?")[0] if separator else uri


def _named(variables: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): environ[name] for name in variables if environ.get(name)}


def _allow_http(environ: Mapping[str, str], variable: str) -> dict[str, str]:
    return {"allow_http": "true"} if _is_true(environ.get(variable, "")) else {}


def _dynamo_endpoint(environ: Mapping[str, str]) -> dict[str, str]:
    found = [environ[name] for name in _DYNAMO_VARIABLES if environ.get(name)]
    return {"dynamodb_endpoint": found[-1]} if found else {}


def _s3_settings(bucket: str, environ: Mapping[str, str], given: Mapping[str, str], uri: str) -> StorageOptions:
    found = {option: environ[name] for name, option in _S3_VARIABLES.items() if environ.get(name)}
    options = StorageOptions(found | _canonical(given))
    if "allow_http" in options:
        options["allow_http"] = "true" if _is_true(options["allow_http"]) else "false"
    _check_endpoint(uri, options)
    path_style = environ.get("AWS_S3_FORCE_PATH_STYLE", "")
    if path_style and "aws_virtual_hosted_style_request" not in given:
        options["aws_virtual_hosted_style_request"] = "false" if _is_true(path_style) else "true"
        if not _is_true(path_style) and "aws_endpoint" in options:
            options["aws_endpoint"] = _with_bucket(options["aws_endpoint"], bucket)
    if "aws_endpoint" in options:
        options["aws_endpoint_url_s3"] = options["aws_endpoint"]
    return options


def _canonical(given: Mapping[str, str]) -> dict[str, str]:
    lowered = {name.lower(): value for name, value in given.items()}
    canonical = {_S3_KEYS.get(name, name): value for name, value in lowered.items()}
    for winner in ("endpoint_url_s3", "aws_endpoint_url_s3"):
        if winner in lowered:
            canonical["aws_endpoint"] = lowered[winner]
    return canonical


def _check_endpoint(uri: str, options: Mapping[str, str]) -> None:
    endpoint = urlsplit(options.get("aws_endpoint", "https://"))
    if endpoint.scheme not in {"http", "https"}:
        raise InvalidUri(display_uri(uri), "the S3 endpoint (AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL) is not a URL")
    if endpoint.scheme == "http" and options.get("allow_http") != "true":
        raise InvalidUri(
            display_uri(uri),
            f"the S3 endpoint {endpoint.hostname} is plain http. Set AWS_ALLOW_HTTP=true to send data and signatures "
            "unencrypted, or use https.",
        )


def _with_bucket(endpoint: str, bucket: str) -> str:
    """Virtual-hosted requests go to the bucket's own host name."""
    parts = urlsplit(endpoint)
    if parts.netloc.startswith(f"{bucket}."):
        return endpoint
    return parts._replace(netloc=f"{bucket}.{parts.netloc}").geturl()


def _is_true(value: str) -> bool:
    return value.strip().lower() in _TRUE
