# Stand-ins for third-party images, from Debian packages and PyPI, because the tests have no registry. Programs are where the
# official images have them.
FROM localhost/base/debian AS redis
RUN groupadd --gid 1000 redis && useradd --uid 999 --gid redis --no-create-home redis \
    && apt-get update && apt-get install -y --no-install-recommends redis-server redis-tools \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
    && ln -s /usr/bin/redis-server /usr/bin/redis-cli /usr/local/bin/ \
    && mkdir /data && chown redis:redis /data
WORKDIR /data
CMD ["redis-server"]

FROM localhost/base/debian AS prometheus
RUN apt-get update && apt-get install -y --no-install-recommends prometheus && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
    && mkdir -p /prometheus /etc/prometheus && chown 65534:65534 /prometheus
USER 65534
ENTRYPOINT ["/usr/bin/prometheus"]

FROM localhost/base/debian AS alertmanager
RUN apt-get update && apt-get install -y --no-install-recommends prometheus-alertmanager \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin && mkdir -p /alertmanager && chown 65534:65534 /alertmanager
USER 65534
ENTRYPOINT ["/usr/bin/prometheus-alertmanager"]

FROM localhost/base/debian AS envoy
COPY envoy /usr/local/bin/envoy
